"""What is told of a view: `session` holds the model and what it was asked, `routes` knows every answer."""
