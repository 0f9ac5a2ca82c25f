"""The A2A face: agents of other programs send messages, and follow the tasks that come of them."""
