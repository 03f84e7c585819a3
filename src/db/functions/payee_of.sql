-- Where the share of a charge goes: to the address of the owner for whom the node worked, and not of whom it belongs to by the time of the commit
-- (docs/decisions/0057). p_worked_for: NULL: a gateway of the version before has charged it, which does not say. p_former: addresses of former owners.
CREATE OR REPLACE FUNCTION payee_of(p_worked_for text, p_owner text, p_address text, p_former jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_worked_for IS NULL OR p_worked_for = p_owner THEN p_address ELSE p_former ->> p_worked_for END;
$$;
