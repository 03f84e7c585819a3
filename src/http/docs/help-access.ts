import type { HelpFamily } from './error-help.ts'

export const helpAccess = {
  title: 'Credentials and permissions',
  codes: {
    missing_credentials: {
      means: 'The route needs a credential, and the request has none that it could look at.',
      next: 'Send the credential that the message names, in the header that it names.',
    },
    invalid_api_key: {
      means:
        'The gateway key is misspelt, unknown, expired or revoked, or another kind of credential came in its place.',
      next: 'Check that the whole key was copied. Where the message names another kind of credential, send a gateway key (`svc_gateway_…`). Ask the operator for a new key if it has expired.',
    },
    invalid_credentials: {
      means: 'The credential is not the right one, or is of another kind than the route needs.',
      next: 'Check id and token. Where the message names another kind of credential, send the one that it asks for.',
    },
    conflicting_credentials: {
      means: 'A gateway key came together with the headers of a customer.',
      next: 'Send the gateway key alone; it acts for its own customer.',
    },
    account_suspended: {
      means: 'The account is suspended or closed.',
      next: 'Ask the operator. The ledger of the account can still be read.',
    },
    insufficient_role: {
      means: 'The role token is valid, and its role may not do this.',
      next: 'Use a token of the role that the message names: viewer, operator or admin.',
    },
    node_pin_forbidden: {
      means: 'The pinned node is unknown or belongs to somebody else. Both get the same answer.',
      next: 'Pin a node of your own account, or leave `node_id` out.',
    },
    model_not_allowed: {
      means: 'The policy of the key or of its account does not allow this model.',
      next: 'Choose a model from `GET /v1/models`, or ask the operator to change the policy.',
    },
    privacy_class_not_allowed: {
      means: 'The model is there, but only on nodes to which the key or its account sends no prompts.',
      next: "The message says whose bound it is: the key's, the account's, or both. Ask the operator to change `min_privacy_class` (or `allow_external`), or connect a node of your own.",
    },
    sealed_only: {
      means: 'The key was made for sealed requests alone, and this one was not sealed.',
      next: 'Send it through `./penstock seal`, or take another key.',
    },
    own_nodes_only: {
      means: 'A mixture uses your own nodes alone, and too many of its models are on nodes of other people only.',
      next: 'Connect a node of your own that serves the model, or choose models that `GET /v1/models` lists as `svc.own`.',
    },
    enrollment_token_invalid: {
      means: 'The enrolment token is unknown, was used, or has expired.',
      next: 'Make a new one with `./penstock nodes enroll`.',
    },
    tunnel_auth_failed: {
      means: 'The gateway does not accept the signature with which a node opens its tunnel.',
      next: 'Check the clock of the node. If the node was revoked, enrol it again.',
    },
    signature_malformed: {
      means: 'A part of the signature has the wrong form.',
      next: 'The message names the part and its form. `docs/protocol.md` has examples.',
    },
    signature_expired: {
      means: 'The time of the signature is more than five minutes away from the time of the gateway.',
      next: 'Set the clock of the node, and sign again.',
    },
    signature_invalid: {
      means: 'The signature does not belong to this text and this node. An unknown node gets the same answer.',
      next: 'Sign exactly the text that the documentation of the route describes, with the identity key of the node.',
    },
    nonce_reused: {
      means: 'The nonce was used in another request.',
      next: 'Sign again with a new nonce.',
    },
  },
} as const satisfies HelpFamily
