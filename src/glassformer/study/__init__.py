"""What a choice does to training: small models, trained side by side and drawn in one picture."""
