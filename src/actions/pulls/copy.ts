import { Type } from '@sinclair/typebox'
import { CopyOrder, ModelCopy } from '../../protocol/wire/nodes/pulls.ts'
import { reason, strict } from '../../protocol/wire/shapes.ts'
import { defineAction } from '../frame/define-action.ts'

/** Its command also shows how it goes, and stands by itself in `models copy`. */
export const copyModel = defineAction({
  name: 'node.model.copy',
  at: 'POST /v1/admin/nodes/:node_id/models/copy',
  policy: { role: 'operator', category: 'node_control', target: 'node', command: 'model.copy' },
  summary: 'Copy a model from a node to another one of the same owner',
  description:
    'Through the gateway, which keeps nothing of it, where the owners of both computers allow it. The answer comes at once, with a pull of the node that gets the model; its list of pulls tells how it goes.',
  tag: 'Nodes (extension)',
  body: Type.Object({ ...CopyOrder.properties, reason }, strict),
  result: ModelCopy,
  statuses: [202],
  run: ({ gateway, audit, params, body: { reason: _, ...order } }) =>
    gateway.modelCopies.copy(audit, params.node_id, order),
  form: {
    on: 'model of a node',
    when: { kind: ['agent'] },
    verb: 'Copy',
    title: 'Copy {model} from {name} to another node',
    about:
      'The agent of the other node fetches it through the gateway, checks it, and adds it to its models.json. The owners of both computers must allow it; it is refused where it does not fit.',
    labels: {
      to: 'Other node',
      name: 'Name there',
      context_length: 'Context length',
    },
    done: 'The other node fetches {model}: its page shows how it goes.',
  },
})
