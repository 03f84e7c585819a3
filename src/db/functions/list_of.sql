-- A list of texts, which comes as an array's text, or as texts with the unit separator (1F) between them and the record separator (1E) in place
-- of NULL: an array's text of 64 ids takes 29 µs to read, and this 4. Simple enough to become part of the statement that calls it.
CREATE OR REPLACE FUNCTION list_of(p_text text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_text LIKE '{%' THEN p_text::text[] ELSE string_to_array(p_text, E'\x1F', E'\x1E') END
$$;
