import type { ModelCopy } from '../../../protocol/wire/nodes/pulls.ts'
import { action } from '../../frame/action.ts'
import { reasonBody, reasonOption } from '../../frame/admin-options.ts'
import { exitCodes, UsageFault } from '../../frame/failure.ts'
import { nodeIdOf, oneNode } from '../../frame/node-id.ts'
import { followPull, pullEnd } from './pull-progress.ts'

export const copy = action({
  about:
    'Copy a model from a node to another one of the same owner, through the gateway, where the owners of both computers allow it',
  operands: [{ name: 'MODEL', about: 'The model id that clients use, or the node’s own name for it' }],
  options: {
    from: { kind: 'text', value: 'NODE', about: 'The node that has it, by its name or its id (node_…)' },
    to: { kind: 'text', value: 'NODE', about: 'The node that gets it, by its name or its id' },
    name: {
      kind: 'text',
      value: 'ID',
      about: 'What requests call it there (default: the name that the first node has for it)',
    },
    'context-length': {
      kind: 'number',
      value: 'TOKENS',
      min: 256,
      max: 16_777_216,
      about: 'Tokens that it must have room for there (default: 8192, or what it can)',
    },
    detach: { kind: 'flag', about: 'Do not wait: `models pulls NODE` shows how it goes' },
    ...reasonOption,
  },
  run: async ({ operands: [model = ''], options, json }, session) => {
    const { from, to, name, 'context-length': tokens, detach } = options
    if (from === undefined || to === undefined) throw new UsageFault('--from and --to are needed')
    const gateway = session.gateway()
    const fromId = await nodeIdOf(gateway, from)
    const nodeId = await nodeIdOf(gateway, to)
    const body = {
      model,
      to: nodeId,
      ...(name === undefined ? {} : { name }),
      ...(tokens === undefined ? {} : { context_length: tokens }),
      ...reasonBody(options.reason),
    }
    const path = `${oneNode(fromId)}/models/copy`
    const { pull: begun } = await gateway.admin<ModelCopy>({ method: 'POST', path, body })
    const seen = await followPull(session, gateway, { nodeId, begun, detach, json })
    session.show(json, seen, () => pullEnd(seen, to))
    return seen.state === 'cancelled' ? exitCodes.failed : undefined
  },
})
