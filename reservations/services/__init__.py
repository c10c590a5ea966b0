"""What changes the ledger. Each service: transaction, lock, facts, rules, rows, audit, outbox."""
