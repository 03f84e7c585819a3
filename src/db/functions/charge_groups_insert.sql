-- Writes the charges of several leases as a row for each: the arrays of `leased_charges_write`, each as long as all of them, with p_balances before
-- the charges of each lease and p_reserved of its customer. One statement, since to begin one for each lease would cost as much as its charges.
CREATE OR REPLACE FUNCTION charge_groups_insert(p_now timestamptz, p_customers text[], p_counts int[], p_balances numeric[], p_reserved numeric[],
  p_charged_sums numeric[], p_share_sums numeric[], p_fee_sums numeric[], p_ids text[], p_reserved_at bigint[], p_charged numeric[],
  p_shares numeric[], p_fees numeric[], p_released numeric[], p_hashes bytea, p_nodes text[], p_kinds text[], p_payees text[],
  p_reserves text[], p_debits text[], p_releases text[], p_payouts text[], p_fee_entries text[], p_reserve_seq bigint[],
  p_debit_seq bigint[], p_release_seq bigint[]) RETURNS void LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  -- The charges from f to t are those of one lease.
  INSERT INTO charge_groups (last_seq, first_seq, group_id, customer_id, rows, created_at, reserve_seq, debit_seq, release_seq,
      reservation_ids, reserve_ids, debit_ids, release_ids, payout_ids, fee_ids, node_ids, kinds, payees, charged_wei, share_wei, fee_wei,
      released_wei, balance_after_wei, reserved_after_wei, reserved_at_ms, hashes, charged_total, shares_total, fees_total)
    SELECT greatest(p_debit_seq[g.t], p_release_seq[g.t]), p_reserve_seq[g.f], p_debits[g.f], g.customer, g.n, p_now,
      p_reserve_seq[g.f:g.t], p_debit_seq[g.f:g.t], p_release_seq[g.f:g.t], p_ids[g.f:g.t], p_reserves[g.f:g.t], p_debits[g.f:g.t],
      p_releases[g.f:g.t], p_payouts[g.f:g.t], p_fee_entries[g.f:g.t], p_nodes[g.f:g.t], p_kinds[g.f:g.t], p_payees[g.f:g.t],
      p_charged[g.f:g.t], p_shares[g.f:g.t], p_fees[g.f:g.t], p_released[g.f:g.t],
      -- In the order of the charges, which a window without one of its own keeps.
      ARRAY(SELECT g.balance - sum(u.charged) OVER (ROWS UNBOUNDED PRECEDING) FROM unnest(p_charged[g.f:g.t]) AS u (charged)),
      array_fill(g.reserved, ARRAY[g.n]), p_reserved_at[g.f:g.t], substring(p_hashes FROM 32 * g.f - 31 FOR 32 * g.n),
      g.charged, g.share, g.fee
    FROM (SELECT q.*, q.t - q.n + 1 AS f FROM (SELECT q.*, (sum(q.n) OVER (ROWS UNBOUNDED PRECEDING))::int AS t
      FROM unnest(p_customers, p_counts, p_balances, p_reserved, p_charged_sums, p_share_sums, p_fee_sums)
        AS q (customer, n, balance, reserved, charged, share, fee)) q) g;
END $$;
