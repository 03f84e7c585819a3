import { strategies } from '../state/conversation.ts'
import { addressOf, placeOf } from '../state/place.ts'
import { type MixtureSetting, noMixture } from './try-mixture.tsx'

/** What a person has set on the page, as far as it can be sent to another: neither keys nor texts. */
export interface Shared {
  readonly model: string
  /** Models that are asked beside it. */
  readonly beside: readonly string[]
  readonly mixture: MixtureSetting
}

const listOf = (text: string | null) => (text === null || text === '' ? [] : text.split(','))

/** As the address has it. */
export function sharedIn(hash: string): Shared {
  const { query } = placeOf(hash)
  const strategy = query.get('mixture')
  const experts = query.get('experts')
  return {
    model: query.get('model') ?? '',
    beside: listOf(query.get('beside')),
    mixture:
      strategy === null || !strategies.includes(strategy)
        ? noMixture
        : {
            on: true,
            strategy,
            experts: experts === null ? null : listOf(experts),
            aggregator: query.get('aggregator') ?? '',
          },
  }
}

/** The address of the page with these settings. */
export const addressWith = ({ model, beside, mixture }: Shared): string =>
  addressOf('try', null, {
    model,
    beside: beside.join(','),
    ...(mixture.on
      ? { mixture: mixture.strategy, experts: mixture.experts?.join(',') ?? '', aggregator: mixture.aggregator }
      : {}),
  })
