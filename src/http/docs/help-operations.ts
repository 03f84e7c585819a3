import type { HelpFamily } from './error-help.ts'

export const helpJobs = {
  title: 'Private jobs and webhooks',
  codes: {
    envelope_invalid: {
      means: 'The envelope has a wrong version, algorithm, length, encoding or key.',
      next: 'Seal with the client library, or compare with the examples in `docs/protocol.md`. The message names the field.',
    },
    envelope_aad_mismatch: {
      means: '`aad_hash` does not belong to this job: it was sealed for another node, model or job id.',
      next: 'Seal again with the values of this request.',
    },
    envelope_replayed: {
      means: 'The ephemeral key of the envelope was used before.',
      next: 'Seal again: every envelope needs a new key.',
    },
    transport_key_unavailable: {
      means: 'The key for which the job was sealed is unknown, expired or revoked.',
      next: 'Fetch the keys of the node again, and seal again.',
    },
    model_not_served: {
      means: 'The node does not have this model.',
      next: 'Choose a model of this node, or another node.',
    },
    webhook_url_invalid: {
      means: 'The webhook URL is not allowed.',
      next: 'Use an `https` URL with a public host name. The message says what is wrong.',
    },
    job_id_conflict: {
      means: 'Another job of this account has this `job_id`.',
      next: 'Choose another id, or leave it out.',
    },
    job_queue_full: {
      means: 'Too many jobs of this account or of this node have not ended.',
      next: 'Wait until some have ended. `Retry-After` says when to try again.',
    },
    job_not_found: {
      means: 'There is no such job in this account.',
      next: 'Check the id and the account. Ended jobs are removed after a while.',
    },
    command_not_found: {
      means: 'There is no such command.',
      next: 'Take the id from the list of jobs. Ended jobs are removed after a while.',
    },
    webhook_not_found: {
      means: 'There is no such delivery.',
      next: 'Take the id from the list of webhooks.',
    },
  },
} as const satisfies HelpFamily

export const helpMoney = {
  title: 'Money and proofs',
  codes: {
    insufficient_funds: {
      means:
        'The request would be billed, and the account has less available than the quote. Work on your own nodes is free.',
      next: 'Ask the operator for credit, or send a smaller `max_tokens`: the quote is made of it. The message has quote and balance.',
    },
    max_price_exceeded: {
      means: 'The quote is above `svc.max_price_wei`.',
      next: 'Raise `svc.max_price_wei`, or send a smaller `max_tokens`. The message has both amounts.',
    },
    credit_id_conflict: {
      means: 'The `credit_id` was used for another amount or customer.',
      next: 'Use a new id. The same id with the same amount credits once.',
    },
    debit_id_conflict: {
      means: 'The `debit_id` was used for another amount, customer or credit.',
      next: 'Use a new id. The same id with the same amount takes credit back once.',
    },
    batch_not_found: {
      means: 'There is no such payout batch.',
      next: 'Take the id from the list of payout batches.',
    },
    receipt_not_found: {
      means: 'There is no such receipt, or it belongs to another account.',
      next: 'Take the hash from `svc.receipt_hash` of the answer.',
    },
    log_entry_not_found: {
      means: 'The public log does not hold this entry. A new one enters it within seconds.',
      next: 'Try again a little later, and check the hash.',
    },
    settlement_not_configured: {
      means: 'The gateway has no blockchain for payouts.',
      next: 'An operator configures one with `SVC_CHAIN_RPC_URL` and the settings beside it.',
    },
  },
} as const satisfies HelpFamily

export const helpAdministration = {
  title: 'Administration',
  codes: {
    reason_required: {
      means: 'The gateway asks for a reason with each action of this kind.',
      next: 'Send `reason` in the body, or the header `X-SVC-Reason`.',
    },
    confirmation_required: {
      means: 'The action cannot be undone, and its exact confirmation is missing.',
      next: 'Send `confirm` with exactly the text that the message names.',
    },
    invalid_state: {
      means: 'The object is in a state in which this cannot be done.',
      next: 'Read the message, and look at the object again: somebody else may have changed it.',
    },
    precondition_failed: {
      means:
        'The row was changed after you read it, and `If-Match` asked to change only what you read. Nothing was changed.',
      next: 'Read the row again, look at what is different, and send your change with the new `ETag`.',
    },
    node_exists: {
      means: 'The model server at this address is a node already.',
      next: 'Change that node instead of registering it again.',
    },
    key_limit_reached: {
      means: 'The customer has as many live keys as it may have.',
      next: 'Revoke a key that is no longer used.',
    },
    admin_not_found: {
      means: 'There is no named role token with this id.',
      next: 'Take the id from `./penstock admins list`.',
    },
    admin_name_taken: {
      means: 'A role token that works bears this name already, in capital or small letters.',
      next: 'Choose another name, or revoke the other token first.',
    },
    admin_limit_reached: {
      means: 'There are as many named role tokens as there may be.',
      next: 'Revoke one that nobody uses. `./penstock admins list` shows when each was used last.',
    },
    session_not_found: {
      means: 'There is no session of the console with this id, or it has been over for more than 30 days.',
      next: 'Take the id from `./penstock admins sessions`.',
    },
    audit_head_lost: {
      means:
        'The end of the audit chain in the database is missing or older than this gateway left it. The gateway refuses to write on.',
      next: 'Find out what changed the database, a restored backup for example. `docs/operations/secure.md` says how to go on.',
    },
    customer_not_found: {
      means: 'There is no customer with this id.',
      next: 'Take the id from the list of customers.',
    },
    key_not_found: {
      means: 'There is no gateway key with this id.',
      next: 'Take the id (`key_…`, not the key itself) from the list of keys.',
    },
    node_not_found: {
      means: 'There is no node with this id, or it belongs to another account.',
      next: 'Take the id from the list of nodes.',
    },
    model_entry_not_found: {
      means: 'The catalogue has no entry with this id.',
      next: 'Take the id from the list of the catalogue.',
    },
    machine_not_found: {
      means: 'There is no statechart with this name.',
      next: 'Take the name from the list of statecharts.',
    },
    request_not_found: {
      means: 'The gateway does not know the request, or keeps it no longer.',
      next: 'Check the id. Requests are kept for some days (`SVC_REQUEST_LOG_DAYS`).',
    },
    enrollment_token_not_found: {
      means: 'There is no enrolment token with this id.',
      next: 'Take the id (`enr_…`, not the token itself) from the list of enrolment tokens.',
    },
    pull_not_found: {
      means:
        'The agent of this node knows no pull with this id: it forgets those that have ended, and all of them when it starts.',
      next: 'List its pulls with `models pulls NODE`. If the model is not there, pull it again: what was fetched is kept.',
    },
    join_not_found: {
      means: 'No computer asks to join under this id, or it no longer does.',
      next: 'List those that wait (`./penstock nodes join`), or start the agent on that computer again.',
    },
    joins_full: {
      means: 'As many computers wait to join as may: 5 from one address, 50 in all.',
      next: 'Confirm or refuse those that wait, or wait 15 minutes.',
    },
  },
} as const satisfies HelpFamily
