"""RSP-QL and its relatives: what each can say, and how it reads and writes its windows."""
