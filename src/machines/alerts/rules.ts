import { type Wanted, wantedOf } from './expression.ts'
import { keepingRules } from './keeping-rules.ts'
import type { Rule } from './rule.ts'
import { servingRules } from './serving-rules.ts'

const table = [...servingRules, ...keepingRules] as const

export type AlertName = (typeof table)[number]['name']

/**
 * Every rule there is. From them come `ops/alerts.yaml`, the table of docs/operations/observe.md, and what the gateway
 * evaluates itself.
 */
export const rules: readonly (Rule & { readonly name: AlertName })[] = table

/** Those that the gateway evaluates. */
export const ownRules = rules.filter(({ outside }) => outside === undefined)

/** What has to be read for rules, each once, and for as long as the one that looks back furthest needs it. */
export const wantedBy = (of: readonly Rule[]): readonly Wanted[] => [
  ...new Map(
    of
      .flatMap(({ condition }) => wantedOf(condition.of))
      .toSorted((a, b) => a.keptMs - b.keptMs)
      .map((each) => [each.name, each]),
  ).values(),
]
