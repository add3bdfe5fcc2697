"""What the window needs of the view: counts per evaluation, the maintenance graph, and the round a policy is given."""
