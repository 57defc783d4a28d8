"""What a choice does: to training, in small models trained side by side, and to the speed of a model."""
