import { useState } from 'preact/hooks'
import { Choice } from '../parts/choice.tsx'
import { fits } from '../parts/long-table.tsx'
import { aggregates, strategies } from '../state/conversation.ts'

export interface MixtureSetting {
  readonly on: boolean
  readonly strategy: string
  /** Chosen by hand; null: the first few. */
  readonly experts: readonly string[] | null
  readonly aggregator: string
}

export const noMixture: MixtureSetting = { on: false, strategy: strategies[0] ?? '', experts: null, aggregator: '' }
/** What is chosen before anybody has chosen; the gateway's own bound may be higher. */
const expertsAtFirst = 3
/** Of more, a search finds the others. */
const expertsShownMax = 40

const expertsOf = ({ experts }: MixtureSetting, models: readonly string[]) =>
  experts === null ? models.slice(0, expertsAtFirst) : experts.filter((model) => models.includes(model))
const aggregatorOf = ({ aggregator }: MixtureSetting, models: readonly string[]) =>
  models.includes(aggregator) ? aggregator : (models[0] ?? '')

/** As the request carries it; null: without a mixture. */
export function mixtureOf(setting: MixtureSetting, models: readonly string[]): object | null {
  if (!setting.on) return null
  const experts = expertsOf(setting, models).map((model) => ({ model }))
  const { strategy } = setting
  return {
    strategy,
    experts,
    ...(aggregates(strategy) ? { aggregator: { model: aggregatorOf(setting, models) } } : {}),
  }
}

interface MixtureFormProps {
  readonly models: readonly string[]
  readonly setting: MixtureSetting
  readonly change: (next: MixtureSetting) => void
}

interface ChecksProps {
  readonly title: string
  readonly find: string
  readonly models: readonly string[]
  readonly chosen: readonly string[]
  readonly choose: (chosen: readonly string[]) => void
  /** As many as may be chosen. */
  readonly most?: number
}

/** Several models, by a box each. */
export function ModelChecks({ title, find, models, chosen, choose, most = Number.POSITIVE_INFINITY }: ChecksProps) {
  const [sought, seek] = useState('')
  // Those that are chosen stay in sight, whatever is sought.
  const found = models.filter((model) => !chosen.includes(model) && fits(model, sought))
  const listed = models.length <= expertsShownMax ? models : [...chosen, ...found].slice(0, expertsShownMax)
  return (
    <fieldset>
      <legend>{title}</legend>
      {models.length === 0 && <p class="hint">The models that the key may use appear here.</p>}
      {models.length > expertsShownMax && (
        <input type="search" aria-label={find} value={sought} onInput={(event) => seek(event.currentTarget.value)} />
      )}
      {listed.map((model) => (
        <label key={model} class="check">
          <input
            type="checkbox"
            checked={chosen.includes(model)}
            disabled={chosen.length >= most && !chosen.includes(model)}
            onChange={(event) =>
              choose(event.currentTarget.checked ? [...chosen, model] : chosen.filter((each) => each !== model))
            }
          />
          {model}
        </label>
      ))}
    </fieldset>
  )
}

export function MixtureForm({ models, setting, change }: MixtureFormProps) {
  const experts = expertsOf(setting, models)
  return (
    <>
      <label class="check">
        <input
          type="checkbox"
          checked={setting.on}
          onChange={(event) => change({ ...setting, on: event.currentTarget.checked })}
        />
        Ask several models (mixture)
      </label>
      {setting.on && (
        <>
          <label for="strategy">Strategy</label>
          <select
            id="strategy"
            value={setting.strategy}
            onChange={(event) => change({ ...setting, strategy: event.currentTarget.value })}
          >
            {strategies.map((strategy) => (
              <option key={strategy}>{strategy}</option>
            ))}
          </select>
          <ModelChecks
            title="Experts"
            find="Find experts"
            models={models}
            chosen={experts}
            choose={(chosen) => change({ ...setting, experts: chosen })}
          />
          {aggregates(setting.strategy) && (
            <>
              <label for="aggregator">Aggregator</label>
              <Choice
                id="aggregator"
                value={aggregatorOf(setting, models)}
                options={models}
                none="none for this key yet"
                choose={(aggregator) => change({ ...setting, aggregator })}
              />
            </>
          )}
        </>
      )}
    </>
  )
}
