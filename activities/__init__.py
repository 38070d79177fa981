"""Everything that touches the world: requests in, receipts out."""
