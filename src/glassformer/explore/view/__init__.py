"""The data of the explorer's page: `session` holds the model and its views, `routes` answers every request."""
