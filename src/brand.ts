/**
 * The one place with the operator's brand token. The specification writes `svc` wherever an identifier of the
 * interface contains the brand; change it here and every header, key prefix and object name follows.
 */
export const brand = 'svc'

/** The program's own name, for terminal texts and the user-agent. */
export const product = 'penstock'

/** The product's name as people read it: titles and headings of pages. */
export const productTitle = 'Penstock'

/** As gateways announce themselves to agents on the local network: `_penstock._tcp` (§39). */
export const gatewayService = product

/** Request and response header names, lower case as `Headers` reads them. */
export const headers = {
  customerId: `x-${brand}-customer-id`,
  customerToken: `x-${brand}-customer-token`,
  adminToken: `x-${brand}-admin-token`,
  /** The token of a second admin, for actions that need two (§16). */
  approverToken: `x-${brand}-approver-token`,
  /** Sent by the console with what it asks by itself: such a request keeps no session alive. */
  unattended: `x-${brand}-unattended`,
  /** The secret of the tab that began a sign-in at a provider: the gateway hands the session to no other. */
  signInSecret: `x-${brand}-sign-in-secret`,
  /** Which requests belong together, as the client says: a hint for placement. */
  session: `x-${brand}-session`,
  /** What a client calls its request by, for its own counts. */
  tags: `x-${brand}-tags`,
  requestId: 'x-request-id',
  /** Sent to a node: the id of this call or sub-call, so that no two receipts are equal (§14). */
  nodeRequestId: `x-${brand}-request-id`,
  /** Sent to an agent for its receipt: the caller's job id, the runtime of the route and the public model id. */
  jobId: `x-${brand}-job-id`,
  runtimeId: `x-${brand}-runtime-id`,
  modelId: `x-${brand}-model-id`,
  nodeClass: `x-${brand}-node-class`,
  /** Of sealed inference in the clear (§38): the model and the bound that the client names, and to the agent the node's own name of the model. */
  sealedModel: `x-${brand}-model`,
  maxTokens: `x-${brand}-max-tokens`,
  upstreamModel: `x-${brand}-upstream-model`,
  /** The client's own, which binds a receipt to its request (§31). With it go to an agent the salt and the request's commitment. */
  clientNonce: `x-${brand}-nonce`,
  receiptSalt: `x-${brand}-receipt-salt`,
  requestCommitment: `x-${brand}-request-commitment`,
  /** Sent to an agent: the newest version of receipts that the gateway reads. Absent: a gateway of a version before v3. */
  receiptVersion: `x-${brand}-receipt-version`,
  /** The keys of the log, which the gateway sends to a witness, and the checkpoint that the witness signed before. */
  logKeys: `x-${brand}-log-keys`,
  logSeen: `x-${brand}-log-seen`,
  /** Sent to a witness that signed the log under an earlier name: the proof that its fork is in the log. */
  logFork: `x-${brand}-log-fork`,
  /** The gateway's nonce for one signed status. */
  statusNonce: `x-${brand}-status-nonce`,
  /** Sent to an agent: which members of a status the gateway takes. Absent: those that gateways have known from the first on. */
  statusMembers: `x-${brand}-status-members`,
  /** The signature by which an agent recognizes the gateway (§22). */
  routerSignature: `x-${brand}-router-signature`,
  /** A key that the owner of an agent's node has made there. */
  apiKey: `x-${brand}-api-key`,
  /** The fields by which the gateway recognizes an agent. */
  nodeId: `x-${brand}-node-id`,
  nodeTimestamp: `x-${brand}-node-timestamp`,
  nodeNonce: `x-${brand}-node-nonce`,
  nodeSignature: `x-${brand}-node-signature`,
  /** By which an agent gets the files of a model that the gateway has ordered to be copied to it (§39). */
  copyTicket: `x-${brand}-copy-ticket`,
  /** Headers between the gateways of one pool (§26). */
  peerTo: `x-${brand}-peer-to`,
  peerHead: `x-${brand}-peer-head`,
  peerProof: `x-${brand}-peer-proof`,
  peerFailure: `x-${brand}-peer-failure`,
  shouldRetry: 'x-should-retry',
} as const

/** Prefixes of the tokens that we issue (§4). */
export const tokenPrefixes = {
  gateway: `${brand}_gateway_`,
  customer: `${brand}_customer_`,
  admin: `${brand}_admin_`,
  operator: `${brand}_operator_`,
  viewer: `${brand}_viewer_`,
  /** Of somebody who is signed in to the console. */
  session: `${brand}_session_`,
  local: `${brand}_local_`,
  /** Keys for `X-SVC-API-Key`, which the owner of a node makes there. */
  api: `${brand}_api_`,
  enroll: `${brand}_enroll_`,
} as const

export const receiptVersion = `${brand}-receipt-v1`
/** With commitments to what a client sent and got (§31). */
export const boundReceiptVersion = `${brand}-receipt-v2`
/** With the time at which its issuer made it (§36), and with the commitments of v2 where the client sent a nonce. */
export const timedReceiptVersion = `${brand}-receipt-v3`
/** `version` of an envelope of private jobs, and the salt of its keys (§10). */
export const envelopeVersion = `${brand}-private-transport-v1`
/** Path of the command routes of a node agent (§22). */
export const commandsPath = `/${brand}/v1/commands`
/** Path where an agent accepts checkpoints to cosign (§31). */
export const witnessPath = `/${brand}/v1/witness/add-checkpoint`
/** Prefix of the `object` of admin reads, as in `${adminObject}job_list`. */
export const adminObject = `${brand}.admin.` as const
export const webhookUserAgent = `${brand}-webhooks/1`
export const metricPrefix = `${brand}_`
/** `type` of a problem response is this plus the code (§2). */
export const problemTypePrefix = `urn:${brand}:problem:`
export const requestUrnPrefix = `urn:${brand}:request:`
