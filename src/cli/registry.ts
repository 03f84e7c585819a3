import type { Verb, VerbEntry } from './frame/action.ts'

/** A verb all of whose commands follow from actions and lists. */
const ofActions = (name: string, about: string): Verb => ({ name, about, actions: {} })

/**
 * In the order of the help text. A new verb is one file and one line here. Each is imported when a command line names it: all of
 * them are ten times the code of one.
 */
const written: Readonly<Record<string, () => Promise<Verb>>> = {
  serve: async () => (await import('./commands/gateway/serve.ts')).serve,
  service: async () => (await import('./commands/gateway/service.ts')).service,
  node: async () => (await import('./commands/nodes/node.ts')).node,
  status: async () => (await import('./commands/gateway/status.ts')).status,
  alerts: async () => ofActions('alerts', 'Show what is wrong, and what to do'),
  logs: async () => (await import('./commands/gateway/logs.ts')).logs,
  doctor: async () => (await import('./commands/gateway/doctor.ts')).doctor,
  chat: async () => (await import('./commands/inference/chat-verb.ts')).chat,
  connect: async () => (await import('./commands/inference/connect.ts')).connect,
  seal: async () => (await import('./commands/inference/seal.ts')).seal,
  jobs: async () => (await import('./commands/inference/jobs.ts')).jobs,
  models: async () => (await import('./commands/inference/models.ts')).models,
  plan: async () => ofActions('plan', 'Show which model belongs on which node, and why'),
  nodes: async () => (await import('./commands/nodes/nodes.ts')).nodes,
  keys: async () => (await import('./commands/accounts/keys.ts')).keys,
  customers: async () => (await import('./commands/accounts/customers.ts')).customers,
  admins: async () => (await import('./commands/accounts/admins.ts')).admins,
  credits: async () => ofActions('credits', 'Manage the prepaid money of customers'),
  payouts: async () => (await import('./commands/accounts/payouts.ts')).payouts,
  audit: async () => (await import('./commands/audit/audit.ts')).audit,
  receipts: async () => (await import('./commands/proofs/receipts.ts')).receipts,
  verify: async () => (await import('./commands/proofs/verify.ts')).verify,
  monitor: async () => (await import('./commands/monitor/monitor.ts')).monitor,
  explain: async () => (await import('./commands/gateway/explain.ts')).explain,
  chain: async () => (await import('./commands/gateway/chain.ts')).chain,
  backup: async () => (await import('./commands/gateway/backups.ts')).backup,
  restore: async () => (await import('./commands/gateway/backups.ts')).restore,
  update: async () => (await import('./commands/gateway/update.ts')).update,
  'reset-admin': async () => (await import('./commands/gateway/offline.ts')).resetAdmin,
  'fake-node': async () => (await import('./commands/gateway/fake-node.ts')).fakeNode,
}

export const verbs: readonly VerbEntry[] = Object.entries(written).map(([name, load]) => ({
  name,
  load,
  whole: async () => (await import('./action-commands.ts')).withActions(await load()),
}))
