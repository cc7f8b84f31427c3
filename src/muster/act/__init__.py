"""The part that changes the world: it starts and submits jobs, writes their records, and removes what they left."""
