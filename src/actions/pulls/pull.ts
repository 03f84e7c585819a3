import { Type } from '@sinclair/typebox'
import { Pull, PullOrder } from '../../protocol/wire/nodes/pulls.ts'
import { reason, strict } from '../../protocol/wire/shapes.ts'
import { defineAction } from '../frame/define-action.ts'

/** Its command also shows how it goes, and stands by itself in `models pull`. */
export const pullModel = defineAction({
  name: 'node.pull',
  at: 'POST /v1/admin/nodes/:node_id/pulls',
  policy: { role: 'operator', category: 'node_control', target: 'node', command: 'model.pull' },
  summary: 'Have the agent of a node fetch a model',
  description:
    'From a hub or an address that the owner of the computer allows. The answer comes at once; the list of pulls tells how it goes.',
  tag: 'Nodes (extension)',
  body: Type.Object({ ...PullOrder.properties, reason }, strict),
  result: Pull,
  statuses: [202],
  run: ({ gateway, audit, params, body: { reason: _, ...order } }) =>
    gateway.nodePulls.pull(audit, params.node_id, order),
  form: {
    on: 'agent',
    verb: 'Pull a model',
    title: 'Have {name} fetch a model',
    about:
      'The agent fetches it from a hub that its owner allows, checks it, and adds it to models.json. It refuses what does not fit into memory or on the disk.',
    labels: {
      ref: 'Model: hf:org/repo:QUANT, ollama:name:tag, or the https address of a .gguf file',
      model: 'Its name in requests (empty: after the reference)',
      context_length: 'Context that it must have room for, tokens (empty: 8,192)',
      sha256: 'SHA-256 of the file (only for an https address)',
    },
    done: '{name} fetches the model.',
  },
})
