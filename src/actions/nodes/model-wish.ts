import { ModelWish, ModelWished } from '../../protocol/wire/admin/admin.ts'
import { defineAction } from '../frame/define-action.ts'
import type { ActionForm } from '../frame/form.ts'
import { nodeOperand, tag } from './node.ts'

export const modelOperand = {
  name: 'MODEL',
  is: 'model',
  about: 'The model id that clients use, or the node’s own name for it',
} as const

interface Wished<W extends 'load' | 'unload'> {
  readonly wish: W
  readonly summary: string
  readonly about: string
  readonly prints: string
  readonly form: Omit<ActionForm, 'on' | 'labels'>
}

/** The node's own file says what is run for a model; nothing of that comes from here. */
export const wishModel = <const W extends 'load' | 'unload'>({ wish, summary, about, prints, form }: Wished<W>) =>
  defineAction({
    name: `node.model.${wish}`,
    at: `POST /v1/admin/nodes/:node_id/models/${wish}`,
    policy: { role: 'operator', category: 'node_control', target: 'node', command: `model.${wish}` },
    summary,
    tag,
    body: ModelWish,
    result: ModelWished,
    statuses: [202],
    run: async ({ gateway, audit, params: { node_id }, body: { model } }) => {
      await gateway.modelWishes.tell(audit, node_id, wish, model)
      return { status: 'accepted', node_id, model } as const
    },
    command: {
      words: `models ${wish}`,
      about,
      operands: [nodeOperand, modelOperand],
      prints,
    },
    form: { ...form, on: 'model of a node', labels: {} },
  })
