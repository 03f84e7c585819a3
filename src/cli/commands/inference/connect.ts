import type { Static } from '@sinclair/typebox'
import { product } from '../../../brand.ts'
import { filled, guides } from '../../../guides/pages.ts'
import type { ModelList } from '../../../protocol/wire/inference/models.ts'
import { action, type Verb } from '../../frame/action.ts'
import { CliFailure, UsageFault } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'
import { table } from '../../frame/table.ts'

/** The first model that the key may use, so that what is pasted works; null: there is none, or the gateway does not answer. */
async function firstModel(session: Session): Promise<string | null> {
  if (session.connection().gatewayKey === null) return null
  try {
    const { body } = await session.gateway().get<Static<typeof ModelList>>('/v1/api/models', true)
    return body.data[0]?.id ?? null
  } catch (error) {
    if (error instanceof CliFailure) return null
    throw error
  }
}

const keyless = `No gateway key is known here. To make one: ./${product} keys create\n`

export const connect: Verb = {
  name: 'connect',
  about: 'Show what connects a client: what to paste, with the address and the key of this gateway',
  actions: action({
    about: 'Show what connects a client, with the address of the gateway and your key. Without a client it lists all',
    operands: [{ name: 'CLIENT', about: 'For example claude-code', optional: true }],
    options: { model: { kind: 'text', value: 'ID', about: 'The model to enter. By default the first of the gateway' } },
    run: async ({ operands: [client], options, json }, session) => {
      if (client === undefined) {
        const known = guides.map(({ client: name, title }) => ({ client: name, title }))
        session.show(json, { clients: known }, ({ clients }) =>
          table(
            session.terminal,
            ['CLIENT', 'CONNECTS'],
            clients.map(({ client: name, title }) => [name, title]),
            '',
          ),
        )
        return undefined
      }
      const guide = guides.find((known) => known.client === client)
      if (guide === undefined) {
        throw new UsageFault(`connect knows ${guides.map((known) => known.client).join(', ')}`)
      }
      const { baseUrl, gatewayKey: key } = session.connection()
      const text = filled(guide, { baseUrl, key, model: options.model ?? (await firstModel(session)) })
      session.show(json, { client, text }, () => text)
      if (key === null) session.terminal.err(keyless)
      return undefined
    },
  }),
}
