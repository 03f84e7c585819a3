-- The same of a node that is not there any more (docs/decisions/0069). NULL also where it never had an address.
CREATE OR REPLACE FUNCTION payee_of_deleted(p_worked_for text, p_node text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT payee_of(p_worked_for, d.customer_id, d.payout_address, d.former_payees) FROM deleted_nodes d WHERE d.node_id = p_node;
$$;
