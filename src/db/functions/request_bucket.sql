-- The bucket of a time in ms: each ends a tenth above the one before, so that a value read from it is off by 5 % at most.
-- NULL has none: what was not measured is in no percentile. -1 is that of 0.
CREATE OR REPLACE FUNCTION request_bucket(p_ms integer)
RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN p_ms > 0 THEN ceil(ln(p_ms::double precision) / ln(1.1::double precision))::smallint
    WHEN p_ms IS NOT NULL THEN -1::smallint END
$$;
