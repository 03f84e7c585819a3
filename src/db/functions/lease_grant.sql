-- How much a lease holds from now on, in all: what it has spent, what it needs (as far as there is room), and a reserve
-- up to what it wants. Beside other holders the reserve is at most a quarter of what is left, so that the last of a
-- pool does not lie idle with one of them.
CREATE OR REPLACE FUNCTION lease_grant(p_spent bigint, p_need bigint, p_want bigint, p_room bigint, p_alone boolean)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN p_need > p_room THEN greatest(p_spent, p_room)
    ELSE p_need + least(greatest(p_want - p_need, 0), CASE WHEN p_alone THEN p_room - p_need ELSE (p_room - p_need) / 4 END)
  END
$$;
