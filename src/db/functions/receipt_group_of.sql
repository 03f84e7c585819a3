-- The last seq of the group that has the receipt; NULL: none has. Groups that no run of places has yet are looked through.
CREATE OR REPLACE FUNCTION receipt_group_of(p_hash text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_hash bytea;
BEGIN
  IF p_hash !~ '^0x[0-9a-f]{64}$' THEN RETURN NULL; END IF;
  v_hash := decode(substr(p_hash, 3), 'hex');
  RETURN (
    SELECT g.last_seq FROM receipt_places p JOIN receipt_groups g USING (last_seq)
      WHERE p.hash_start = substring(v_hash FOR 8) AND substring(g.hashes FROM 32 * p.place - 31 FOR 32) = v_hash
    UNION ALL
    SELECT g.last_seq FROM receipt_groups g
      WHERE g.last_seq > (SELECT coalesce(max(r.to_seq), 0) FROM receipt_place_runs r) AND position(v_hash IN g.hashes) % 32 = 1
    LIMIT 1);
END $$;
