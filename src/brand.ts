/**
 * The one place with the operator's brand token. The specification writes `svc` wherever an identifier of the
 * interface contains the brand; change it here and every header, key prefix and object name follows.
 */
export const brand = 'svc'

/** The program's own name, for terminal texts and the user-agent. */
export const product = 'penstock'

/** Request and response header names, lower case as `Headers` reads them. */
export const headers = {
  customerId: `x-${brand}-customer-id`,
  customerToken: `x-${brand}-customer-token`,
  adminToken: `x-${brand}-admin-token`,
  /** Of a second admin, where an action needs two (§16). */
  approverToken: `x-${brand}-approver-token`,
  requestId: 'x-request-id',
  /** Toward a node: the id of this (sub-)call, so that no two receipts are alike (§14). */
  nodeRequestId: `x-${brand}-request-id`,
  /** Toward an agent: the caller's own job id, the runtime of the route and the public model id, for its receipt. */
  jobId: `x-${brand}-job-id`,
  runtimeId: `x-${brand}-runtime-id`,
  modelId: `x-${brand}-model-id`,
  nodeClass: `x-${brand}-node-class`,
  /** Toward a witness: the keys of the log. From it: the checkpoint that it signed before. */
  logKeys: `x-${brand}-log-keys`,
  logSeen: `x-${brand}-log-seen`,
  /** The gateway's word for one signed status. */
  statusNonce: `x-${brand}-status-nonce`,
  /** By which an agent knows the gateway (§22). */
  routerSignature: `x-${brand}-router-signature`,
  /** A key that the owner of an agent's machine has made there. */
  apiKey: `x-${brand}-api-key`,
  /** By which the gateway knows an agent. */
  nodeId: `x-${brand}-node-id`,
  nodeTimestamp: `x-${brand}-node-timestamp`,
  nodeNonce: `x-${brand}-node-nonce`,
  nodeSignature: `x-${brand}-node-signature`,
  /** Between the gateways of one pool (§26). */
  peerTo: `x-${brand}-peer-to`,
  peerHead: `x-${brand}-peer-head`,
  peerProof: `x-${brand}-peer-proof`,
  peerFailure: `x-${brand}-peer-failure`,
  shouldRetry: 'x-should-retry',
} as const

/** Prefixes of the tokens we issue (§4). */
export const tokenPrefixes = {
  gateway: `${brand}_gateway_`,
  customer: `${brand}_customer_`,
  admin: `${brand}_admin_`,
  operator: `${brand}_operator_`,
  viewer: `${brand}_viewer_`,
  local: `${brand}_local_`,
  /** Keys of `X-SVC-API-Key`, made on the agent's machine. */
  api: `${brand}_api_`,
  enroll: `${brand}_enroll_`,
} as const

export const receiptVersion = `${brand}-receipt-v1`
/** `version` of an envelope of private jobs, and the salt of its keys (§10). */
export const envelopeVersion = `${brand}-private-transport-v1`
/** Path of the command routes of a node agent (§22). */
export const commandsPath = `/${brand}/v1/commands`
/** Where an agent takes checkpoints to cosign (§31). */
export const witnessPath = `/${brand}/v1/witness/add-checkpoint`
/** Objects of the admin reads: `${adminObject}job_list`. */
export const adminObject = `${brand}.admin.` as const
export const webhookUserAgent = `${brand}-webhooks/1`
export const metricPrefix = `${brand}_`
/** `type` of a problem response is this plus the code (§2). */
export const problemTypePrefix = `urn:${brand}:problem:`
export const requestUrnPrefix = `urn:${brand}:request:`
