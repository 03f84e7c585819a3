import type { Verb } from './action.ts'
import { audit } from './audit.ts'
import { chat } from './chat.ts'
import { credits } from './credits.ts'
import { customers } from './customers.ts'
import { explain } from './explain.ts'
import { fakeNode } from './fake-node.ts'
import { jobs } from './jobs.ts'
import { keys } from './keys.ts'
import { models } from './models.ts'
import { node } from './node.ts'
import { nodes } from './nodes.ts'
import { backup, resetAdmin, restore } from './offline.ts'
import { payouts } from './payouts.ts'
import { serve } from './serve.ts'
import { status } from './status.ts'
import { verify } from './verify.ts'

/** In the order of the help text. A new verb is a file and a line. */
export const verbs: readonly Verb[] = [
  serve,
  node,
  status,
  chat,
  jobs,
  models,
  nodes,
  keys,
  customers,
  credits,
  payouts,
  audit,
  verify,
  explain,
  backup,
  restore,
  resetAdmin,
  fakeNode,
]
