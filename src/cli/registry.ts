import { withActions } from './action-commands.ts'
import { admins } from './commands/accounts/admins.ts'
import { customers } from './commands/accounts/customers.ts'
import { keys } from './commands/accounts/keys.ts'
import { payouts } from './commands/accounts/payouts.ts'
import { audit } from './commands/audit/audit.ts'
import { backup, restore } from './commands/gateway/backups.ts'
import { chain } from './commands/gateway/chain.ts'
import { doctor } from './commands/gateway/doctor.ts'
import { explain } from './commands/gateway/explain.ts'
import { fakeNode } from './commands/gateway/fake-node.ts'
import { logs } from './commands/gateway/logs.ts'
import { resetAdmin } from './commands/gateway/offline.ts'
import { serve } from './commands/gateway/serve.ts'
import { service } from './commands/gateway/service.ts'
import { status } from './commands/gateway/status.ts'
import { update } from './commands/gateway/update.ts'
import { chat } from './commands/inference/chat-verb.ts'
import { connect } from './commands/inference/connect.ts'
import { jobs } from './commands/inference/jobs.ts'
import { models } from './commands/inference/models.ts'
import { seal } from './commands/inference/seal.ts'
import { monitor } from './commands/monitor/monitor.ts'
import { node } from './commands/nodes/node.ts'
import { nodes } from './commands/nodes/nodes.ts'
import { receipts } from './commands/proofs/receipts.ts'
import { verify } from './commands/proofs/verify.ts'
import type { Verb } from './frame/action.ts'

const credits: Verb = { name: 'credits', about: 'Manage the prepaid money of customers', actions: {} }

const alerts: Verb = { name: 'alerts', about: 'Show what is wrong, and what to do', actions: {} }

const plan: Verb = { name: 'plan', about: 'Show which model belongs on which node, and why', actions: {} }

/** In the order of the help text. A new verb is one file and one line here. */
const written: readonly Verb[] = [
  serve,
  service,
  node,
  status,
  alerts,
  logs,
  doctor,
  chat,
  connect,
  seal,
  jobs,
  models,
  plan,
  nodes,
  keys,
  customers,
  admins,
  credits,
  payouts,
  audit,
  receipts,
  verify,
  monitor,
  explain,
  chain,
  backup,
  restore,
  update,
  resetAdmin,
  fakeNode,
]

export const verbs: readonly Verb[] = written.map(withActions)
