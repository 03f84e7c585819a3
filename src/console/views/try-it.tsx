import { useEffect, useState } from 'preact/hooks'
import type { Model } from '../../protocol/wire/inference/models.ts'
import { Choice } from '../parts/choice.tsx'
import { whyOf } from '../state/api.ts'
import { gatewayKey, modelsFor, sealedFor } from '../state/conversation.ts'
import { fingerprintPattern } from '../state/sealed-chat.ts'
import { besideMax } from './try-beside.tsx'
import { Connect } from './try-connect.tsx'
import { Conversation } from './try-conversation.tsx'
import { type Fields, FieldsSetting } from './try-fields.tsx'
import { MixtureForm, ModelChecks, mixtureOf } from './try-mixture.tsx'
import { addressWith, type Shared, sharedIn } from './try-settings.ts'

const keyPauseMs = 400

interface Usable {
  readonly models: readonly Model[]
  /** Why there are none; null: they were not refused. */
  readonly why: string | null
}

/** The models that a key may use; asked anew when the typing has paused. */
function useModels(given: string): Usable {
  const [state, setState] = useState<Usable>({ models: [], why: null })
  useEffect(() => {
    if (given === '') return setState({ models: [], why: null })
    const ending = new AbortController()
    const look = () =>
      modelsFor(given, ending.signal).then(
        (models) => setState({ models, why: null }),
        (error: unknown) => {
          if (ending.signal.aborted) return
          setState({ models: [], why: whyOf(error) })
        },
      )
    const timer = setTimeout(look, keyPauseMs)
    return () => {
      clearTimeout(timer)
      ending.abort()
    }
  }, [given])
  return state
}

const idsOf = (models: readonly Model[]) => models.map(({ id }) => id)

/** What an answer of this model may cost; null: nothing. */
function costOf(model: Model | undefined): string | null {
  const price = model?.svc.price
  if (price == null) return null
  const { prompt_token_price_wei: prompt, completion_token_price_wei: completion } = price
  const where =
    model?.svc.own === true
      ? 'Own nodes come first and are free. On a node of somebody else'
      : 'Only nodes of somebody else serve this model:'
  return `${where} a token costs ${prompt} wei in the prompt and ${completion} wei in the answer.`
}

/** Whether this browser seals, and for which node. */
function SealSetting() {
  const seal = sealedFor.value.trim()
  const wrong = seal !== '' && !fingerprintPattern.test(seal)
  return (
    <>
      <label for="seal">Seal for the node with this fingerprint</label>
      <input
        id="seal"
        autocomplete="off"
        spellcheck={false}
        placeholder="SHA256:…"
        value={sealedFor.value}
        aria-describedby="seal-hint"
        aria-invalid={wrong}
        onInput={(event) => {
          sealedFor.value = event.currentTarget.value
        }}
      />
      <p id="seal-hint" class={wrong ? 'alert' : 'hint'} role={wrong ? 'alert' : undefined}>
        {wrong
          ? 'A fingerprint is SHA256: and 43 characters, as the node’s agent prints it.'
          : 'Leave it empty to send in the clear. Otherwise this browser encrypts for a node of the customer’s, and the gateway relays what it cannot read. This page comes from the gateway: for secrets, use penstock seal.'}
      </p>
    </>
  )
}

export function TryIt() {
  const { models: usable, why } = useModels(gatewayKey.value.trim())
  const models = idsOf(usable)
  // A mixture never leaves the own nodes.
  const own = idsOf(usable.filter(({ svc }) => svc.own))
  const [shared, setShared] = useState(() => sharedIn(location.hash))
  const { model: chosen, beside, mixture } = shared
  const share = (more: Partial<Shared>) => {
    const next = { ...shared, ...more }
    setShared(next)
    // Another person who opens the address finds the same settings, without a key and without a text.
    history.replaceState(null, '', addressWith(next))
  }
  const [fields, setFields] = useState<Fields>({ text: '', value: {}, wrong: false })
  const model = models.includes(chosen) ? chosen : (models[0] ?? '')
  const seal = sealedFor.value.trim()
  const isSealed = seal !== ''
  const others = beside.filter((each) => models.includes(each) && each !== model).slice(0, besideMax)
  const cost = costOf(usable.find(({ id }) => id === model))
  return (
    <>
      <h1>Try it</h1>
      <div class="try">
        <form class="try-settings" aria-label="Settings" onSubmit={(event) => event.preventDefault()}>
          <label for="key">Gateway key</label>
          <input
            id="key"
            type="password"
            autocomplete="off"
            spellcheck={false}
            value={gatewayKey.value}
            aria-describedby="key-hint"
            onInput={(event) => {
              gatewayKey.value = event.currentTarget.value
            }}
          />
          <p id="key-hint" class={why === null ? 'hint' : 'alert'} role={why === null ? undefined : 'alert'}>
            {why ?? 'A customer’s key. Your requests count on its account. The page does not keep the key.'}
          </p>
          <label for="model">Model</label>
          <Choice
            id="model"
            value={model}
            options={models}
            none="none for this key yet"
            choose={(next) => share({ model: next })}
          />
          {cost !== null && <p class="hint">{cost}</p>}
          {!isSealed && models.length > 1 && (
            <ModelChecks
              title={`Ask beside it, at most ${besideMax}`}
              find="Find models to ask beside it"
              models={models.filter((each) => each !== model)}
              chosen={others}
              choose={(next) => share({ beside: next })}
              most={besideMax}
            />
          )}
          <SealSetting />
          {!isSealed && <MixtureForm models={own} setting={mixture} change={(next) => share({ mixture: next })} />}
          <FieldsSetting fields={fields} change={setFields} />
          <p class="hint">
            The address of this page holds the models and the mixture, so you can send it to a colleague. It holds no
            key and no text.
          </p>
        </form>
        <Conversation
          apiKey={gatewayKey.value.trim()}
          model={(isSealed && !fingerprintPattern.test(seal)) || fields.wrong ? '' : model}
          mixture={isSealed ? null : mixtureOf(mixture, own)}
          fields={fields.value}
          beside={isSealed ? [] : others}
          seal={seal}
        />
      </div>
      <Connect apiKey={gatewayKey.value.trim()} model={model} />
    </>
  )
}
