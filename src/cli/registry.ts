import type { Verb } from './action.ts'
import { chat } from './chat.ts'
import { customers } from './customers.ts'
import { explain } from './explain.ts'
import { fakeNode } from './fake-node.ts'
import { keys } from './keys.ts'
import { models } from './models.ts'
import { node } from './node.ts'
import { nodes } from './nodes.ts'
import { backup, resetAdmin, restore } from './offline.ts'
import { serve } from './serve.ts'
import { status } from './status.ts'

/** In the order of the help text. A new verb is a file and a line. */
export const verbs: readonly Verb[] = [
  serve,
  node,
  status,
  chat,
  models,
  nodes,
  keys,
  customers,
  explain,
  backup,
  restore,
  resetAdmin,
  fakeNode,
]
