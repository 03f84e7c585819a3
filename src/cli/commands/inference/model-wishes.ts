import type { ModelWished } from '../../../protocol/wire/admin/admin.ts'
import { action } from '../../frame/action.ts'
import { reasonBody, reasonOption } from '../../frame/admin-options.ts'
import { nodeIdOf, oneNode } from '../../frame/node-id.ts'

const operands = [
  { name: 'NODE', about: 'The node’s name or its id (node_…), as `nodes list` shows them' },
  { name: 'MODEL', about: 'The model id that clients use, or the node’s own name for it' },
] as const

const wish = (name: 'load' | 'unload', about: string, said: string) =>
  action({
    about,
    operands,
    options: reasonOption,
    run: async ({ operands: [node, model], options: { reason }, json }, session) => {
      const gateway = session.gateway()
      const path = `${oneNode(await nodeIdOf(gateway, node))}/models/${name}`
      const body = { model: model ?? '', ...reasonBody(reason) }
      const answer = await gateway.admin<ModelWished>({ method: 'POST', path, body })
      session.show(json, answer, () => `${node} ${said} ${model}.\n`)
      return undefined
    },
  })

export const load = wish('load', 'Bring a model into the memory of a node', 'loads')
export const unload = wish('unload', 'Let a model leave the memory of a node when its work is done', 'lets go of')
