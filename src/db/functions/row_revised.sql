-- What can be edited of the row has changed, by whichever writer: an edit of what was read before is refused (If-Match).
CREATE OR REPLACE FUNCTION row_revised() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.revision := gen_random_uuid();
  RETURN NEW;
END $$;
