import { ModelLogRead, ModelWish } from '../../protocol/wire/admin/admin.ts'
import { defineAction } from '../frame/define-action.ts'
import { modelOperand } from './model-wish.ts'
import { nodeOperand, tag } from './node.ts'

/** A POST, since it leaves an event in the audit: what a server writes may say more than a gateway is told otherwise. */
export const readModelLogs = defineAction({
  name: 'node.model.logs',
  at: 'POST /v1/admin/nodes/:node_id/models/logs',
  policy: { role: 'operator', category: 'node_control', target: 'node' },
  summary: 'Read the last lines of a model server that an agent runs, where the owner of the node lets operators (§37)',
  description:
    'At most 200 lines of 500 characters, of the last start of the server. The gateway keeps none of them. 409 `invalid_state` where no agent runs the server, or its `models.json` has no `logs: true` for the model.',
  tag,
  body: ModelWish,
  result: ModelLogRead,
  run: async ({ gateway, audit, params: { node_id }, body: { model }, signal }) => {
    const lines = await gateway.modelLogs.last(audit, node_id, model, signal)
    return { node_id, model, lines: [...lines] }
  },
  command: {
    words: 'models logs',
    about: 'Print the last lines of a model server that the agent of a node runs',
    operands: [nodeOperand, modelOperand],
    prints: ({ lines }) => (lines.length === 0 ? 'It has written nothing yet.\n' : `${lines.join('\n')}\n`),
  },
  form: {
    on: 'model of a node',
    when: { kind: ['agent'] },
    verb: 'Read',
    button: 'Log',
    title: 'What the server of {model} on {name} wrote last',
    about:
      'Its last lines, where the owner of the computer lets operators read them. The audit keeps that you read them.',
    reads: { lines: 'Last lines' },
    done: 'The log of {model} on {name} was read.',
    labels: {},
  },
})
