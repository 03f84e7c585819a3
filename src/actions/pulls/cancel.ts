import { Pull } from '../../protocol/wire/nodes/pulls.ts'
import { defineAction } from '../frame/define-action.ts'
import { nodeOperand } from '../nodes/node.ts'

export const cancelPull = defineAction({
  name: 'node.pull.cancel',
  at: 'POST /v1/admin/nodes/:node_id/pulls/:pull_id/cancel',
  policy: { role: 'operator', category: 'node_control', target: 'node', command: 'model.pull.cancel' },
  summary: 'End a pull. What was fetched stays for the next one',
  tag: 'Nodes (extension)',
  result: Pull,
  run: ({ gateway, audit, params }) => gateway.nodePulls.cancel(audit, params.node_id, params.pull_id),
  command: {
    words: 'models cancel-pull',
    after: 'pulls',
    about: 'End the pull of a model. What was fetched stays for the next one',
    operands: [nodeOperand, { name: 'PULL_ID', is: 'pull_id', about: 'The id (pull_…), as `models pulls` shows it' }],
    prints: 'The pull {PULL_ID} is ended.',
  },
  form: {
    on: 'pull',
    when: { state: ['waiting', 'looking', 'fetching'] },
    verb: 'End pull',
    title: 'End the pull of {model}',
    about: 'What was fetched stays on the disk of the computer, and the next pull goes on with it.',
    done: 'The pull of {model} is ended.',
  },
})
