"""What processes give each other: queues and the codec of their items, memory that is lent, and the commands that start a daemon. Stands on core."""
