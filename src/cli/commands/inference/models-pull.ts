import type { Pull } from '../../../protocol/wire/nodes/pulls.ts'
import { action } from '../../frame/action.ts'
import { reasonBody, reasonOption } from '../../frame/admin-options.ts'
import { exitCodes } from '../../frame/failure.ts'
import { nodeIdOf, oneNode } from '../../frame/node-id.ts'
import { followPull, pullEnd } from './pull-progress.ts'

export const pull = action({
  about:
    'Have the agent of a node fetch a model, from where the owner of the computer allows it, and add it to models.json',
  operands: [
    { name: 'NODE', about: 'The node’s name or its id (node_…), as `nodes list` shows them' },
    { name: 'REF', about: 'hf:org/repo:QUANT, ollama:name:tag, or the https address of a .gguf file (with --sha256)' },
  ],
  options: {
    model: { kind: 'text', value: 'ID', about: 'What requests call it (default: after the reference)' },
    'context-length': {
      kind: 'number',
      value: 'TOKENS',
      min: 256,
      max: 16_777_216,
      about: 'Tokens that it must have room for (default: 8192, or what it can)',
    },
    sha256: { kind: 'text', value: 'HEX', about: 'What the file must hash to' },
    detach: { kind: 'flag', about: 'Do not wait: `models pulls NODE` shows how it goes' },
    ...reasonOption,
  },
  run: async ({ operands: [node = '', ref = ''], options, json }, session) => {
    const gateway = session.gateway()
    const nodeId = await nodeIdOf(gateway, node)
    const { model, sha256, 'context-length': tokens } = options
    const body = {
      ref,
      ...(model === undefined ? {} : { model }),
      ...(sha256 === undefined ? {} : { sha256 }),
      ...(tokens === undefined ? {} : { context_length: tokens }),
      ...reasonBody(options.reason),
    }
    const begun = await gateway.admin<Pull>({ method: 'POST', path: `${oneNode(nodeId)}/pulls`, body })
    const seen = await followPull(session, gateway, { nodeId, begun, detach: options.detach, json })
    session.show(json, seen, () => pullEnd(seen, node))
    return seen.state === 'cancelled' ? exitCodes.failed : undefined
  },
})
