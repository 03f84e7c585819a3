-- The bucket of a time in ms: each ends a tenth above the one before, so that a value read from it is off by 5 % at most.
CREATE OR REPLACE FUNCTION request_bucket(p_ms integer)
RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT ceil(ln(greatest(p_ms, 1)::double precision) / ln(1.1::double precision))::smallint
$$;
