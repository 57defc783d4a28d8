"""Built-in data: generated images of coloured shapes, with their captions, questions, boxes and masks."""
