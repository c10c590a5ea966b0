"""How one message leaves: Message, Transport, and the transports. Knows no models: who is told what is the ledger's."""
