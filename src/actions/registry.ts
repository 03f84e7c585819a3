import type { AdminRoute } from '../machines/rules/admin-route.ts'
import { createAdmin } from './admins/create.ts'
import { endSession } from './admins/end-session.ts'
import { adminList } from './admins/list.ts'
import { revokeAdmin } from './admins/revoke.ts'
import { sessionList } from './admins/sessions.ts'
import { signIn } from './admins/sign-in.ts'
import { signOut } from './admins/sign-out.ts'
import { alertList } from './alerts/list.ts'
import { nameRows } from './audit/name-rows.ts'
import { purgeAudit } from './audit/purge.ts'
import { createCustomer } from './customers/create.ts'
import { creditCustomer } from './customers/credit.ts'
import { debitCustomer } from './customers/debit.ts'
import { customerList } from './customers/list.ts'
import { rotateWebhookSecret } from './customers/rotate-secret.ts'
import { rotateCustomerToken } from './customers/rotate-token.ts'
import { updateCustomer } from './customers/update.ts'
import type { Action } from './frame/define-action.ts'
import type { List } from './frame/define-list.ts'
import { exported, read } from './frame/policy.ts'
import { cancelJob } from './jobs/cancel.ts'
import { jobList } from './jobs/list.ts'
import { redeliverWebhook } from './jobs/redeliver.ts'
import { webhookList } from './jobs/webhooks.ts'
import { confirmJoin } from './joins/confirm.ts'
import { enrollNode } from './joins/enroll.ts'
import { joinList } from './joins/list.ts'
import { refuseJoin } from './joins/refuse.ts'
import { tokenList } from './joins/tokens.ts'
import { withdrawToken } from './joins/withdraw.ts'
import { issueKey } from './keys/issue.ts'
import { keyList } from './keys/list.ts'
import { allKeyList } from './keys/list-all.ts'
import { previewPolicy } from './keys/preview.ts'
import { revokeKey } from './keys/revoke.ts'
import { rotateKey } from './keys/rotate.ts'
import { updateKey } from './keys/update.ts'
import { deleteModel } from './models/delete.ts'
import { editModel } from './models/edit.ts'
import { modelList } from './models/list.ts'
import { mixtureList } from './models/mixtures.ts'
import { memoryPlan } from './models/plan.ts'
import { putModel } from './models/put.ts'
import { batchProofs } from './money/batch-proofs.ts'
import { batchList } from './money/batches.ts'
import { createBatch } from './money/create-batch.ts'
import { heldReceiptList } from './money/held-receipts.ts'
import { nameFork } from './money/name-fork.ts'
import { rejectReceipt } from './money/reject-receipt.ts'
import { releaseReceipt } from './money/release-receipt.ts'
import { retryBatch } from './money/retry-batch.ts'
import { submitBatch } from './money/submit-batch.ts'
import { deleteNode } from './nodes/delete.ts'
import { discoverNodes } from './nodes/discover.ts'
import { drainNode } from './nodes/drain.ts'
import { nodeList } from './nodes/list.ts'
import { loadModel } from './nodes/load.ts'
import { readModelLogs } from './nodes/logs.ts'
import { changeNodeOwner } from './nodes/owner.ts'
import { probeNode } from './nodes/probe.ts'
import { registerNode } from './nodes/register.ts'
import { resumeNode } from './nodes/resume.ts'
import { revokeNode } from './nodes/revoke.ts'
import { sleepNode } from './nodes/sleep.ts'
import { unloadModel } from './nodes/unload.ts'
import { updateNode } from './nodes/update.ts'
import { wakeNode } from './nodes/wake.ts'
import { cancelPull } from './pulls/cancel.ts'
import { copyModel } from './pulls/copy.ts'
import { pullList } from './pulls/list.ts'
import { pullModel } from './pulls/pull.ts'

/**
 * Every admin route there is, in the order of the approval policy: what operators can do, and rows of what they can
 * read. What is mounted names its row and takes its role from it; the OpenAPI document, the approval policy and the
 * templates of the audit read the same list, and the start refuses a route that is not in it (`checkAdminRoutes`).
 */
const registry = [
  creditCustomer,
  debitCustomer,
  purgeAudit,
  nameRows,
  exported('customer.usage.export', '/v1/admin/customers/:customer_id/usage-export'),
  exported('customer.invoice.export', '/v1/admin/customers/:customer_id/invoice'),
  // What the console shows by itself is no sensitive call: else its own reads would hide those of a person.
  read('billing.costs.read', 'operator', 'observability', '/v1/admin/billing/costs'),
  read('billing.treasury.read', 'operator', 'billing', '/v1/admin/billing/treasury-report'),
  read('audit.access.read', 'viewer', 'audit', '/v1/admin/access-events'),
  read('audit.approval.read', 'viewer', 'audit', '/v1/admin/approval-events'),
  read('audit.command.read', 'viewer', 'audit', '/v1/admin/command-events'),
  read('audit.summary.read', 'viewer', 'audit', '/v1/admin/audit/summary'),
  read('audit.chain.verify', 'viewer', 'audit', '/v1/admin/audit/verify'),
  read('audit.chain.export', 'viewer', 'audit', '/v1/admin/audit/export'),
  read('approval.policy.read', 'viewer', 'audit', '/v1/admin/approval-policy'),
  issueKey,
  updateKey,
  previewPolicy,
  rotateKey,
  revokeKey,
  keyList,
  allKeyList,
  createAdmin,
  revokeAdmin,
  adminList,
  endSession,
  sessionList,
  signIn,
  signOut,
  createCustomer,
  updateCustomer,
  rotateCustomerToken,
  rotateWebhookSecret,
  customerList,
  read('customer.read', 'operator', 'observability', '/v1/admin/customers/:customer_id'),
  enrollNode,
  withdrawToken,
  tokenList,
  confirmJoin,
  refuseJoin,
  joinList,
  registerNode,
  updateNode,
  changeNodeOwner,
  deleteNode,
  drainNode,
  resumeNode,
  sleepNode,
  wakeNode,
  revokeNode,
  loadModel,
  unloadModel,
  pullModel,
  copyModel,
  cancelPull,
  pullList,
  readModelLogs,
  probeNode,
  discoverNodes,
  nodeList,
  read('node.read', 'viewer', 'node_control', '/v1/admin/nodes/:node_id'),
  putModel,
  editModel,
  deleteModel,
  modelList,
  memoryPlan,
  cancelJob,
  read('command.read', 'viewer', 'node_control', '/v1/admin/commands/:command_id'),
  jobList,
  redeliverWebhook,
  webhookList,
  createBatch,
  submitBatch,
  retryBatch,
  batchList,
  batchProofs,
  releaseReceipt,
  rejectReceipt,
  heldReceiptList,
  nameFork,
  read('ledger.proof.read', 'operator', 'observability', '/v1/admin/ledger/proof'),
  read('ledger.check.read', 'operator', 'billing', '/v1/admin/ledger/check'),
  read('receipt.read', 'viewer', 'settlement', '/v1/admin/receipts/:receipt_hash'),
  alertList,
  read('request.list', 'viewer', 'observability', '/v1/admin/requests'),
  read('request.failures', 'viewer', 'observability', '/v1/admin/failures'),
  read('traffic.read', 'viewer', 'observability', '/v1/admin/traffic'),
  read('traffic.first_tokens', 'viewer', 'observability', '/v1/admin/traffic/first-tokens'),
  read('traffic.marks', 'viewer', 'observability', '/v1/admin/traffic/marks'),
  read('request.read', 'viewer', 'observability', '/v1/admin/requests/:request_id'),
  read('explain.read', 'viewer', 'observability', '/v1/admin/explain'),
  mixtureList,
  read('machine.list', 'viewer', 'observability', '/v1/admin/machines'),
  read('machine.transitions', 'viewer', 'observability', '/v1/admin/machines/:machine/transitions'),
  read('machine.inspect', 'viewer', 'observability', '/v1/admin/inspect'),
] as const satisfies readonly AdminRoute[]

export type AdminAction = (typeof registry)[number]['action']

export const actions: readonly Action[] = registry.filter((row) => 'run' in row)
export const lists: readonly List[] = registry.filter((row) => 'rows' in row)

/** By the name of the action. */
export const adminRoutes = Object.fromEntries(registry.map((row) => [row.action, row])) as Readonly<
  Record<AdminAction, AdminRoute>
>

/** A name that stands in the database may be of another version. */
export const adminRoute = (action: string): AdminRoute => {
  const row = (adminRoutes as Readonly<Record<string, AdminRoute>>)[action]
  if (row === undefined) throw new Error(`no action ${action}`)
  return row
}
