-- The same as request_records_insert_columns with a JSON array of the columns.
CREATE OR REPLACE FUNCTION request_records_insert(p_records json) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM request_records_insert_columns(ARRAY(SELECT value FROM json_array_elements_text(p_records)));
END $$;
