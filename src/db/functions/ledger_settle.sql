-- What a gateway of the version before calls (docs/decisions/0035): a row for each charge, as it knows them.
CREATE OR REPLACE FUNCTION ledger_settle(p_ids text[], p_charged numeric[], p_shares numeric[], p_fees numeric[],
  p_hashes text[], p_nodes text[], p_kinds text[], p_held boolean[], p_debits text[], p_releases text[], p_payouts text[],
  p_fee_entries text[], p_receipts json)
RETURNS TABLE (place int, outcome text) LANGUAGE sql AS $$
  SELECT * FROM ledger_charge(p_ids, p_charged, p_shares, p_fees, p_hashes, p_nodes, p_kinds, p_held, p_debits, p_releases,
    p_payouts, p_fee_entries, p_receipts, NULL);
$$;
