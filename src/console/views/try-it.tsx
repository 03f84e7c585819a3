import { useEffect, useState } from 'preact/hooks'
import { Choice } from '../parts/choice.tsx'
import { Refusal } from '../state/api.ts'
import { gatewayKey, modelsFor } from '../state/conversation.ts'
import { placeOf } from '../state/place.ts'
import { Connect } from './try-connect.tsx'
import { Conversation } from './try-conversation.tsx'
import { MixtureForm, type MixtureSetting, mixtureOf, noMixture } from './try-mixture.tsx'

const keyPauseMs = 400

/** The models that a key may use; asked anew when the typing has paused. */
function useModels(given: string): { readonly models: readonly string[]; readonly why: string | null } {
  const [state, setState] = useState<{ models: readonly string[]; why: string | null }>({ models: [], why: null })
  useEffect(() => {
    if (given === '') return setState({ models: [], why: null })
    const ending = new AbortController()
    const look = () =>
      modelsFor(given, ending.signal).then(
        (models) => setState({ models, why: null }),
        (error: unknown) => {
          if (ending.signal.aborted) return
          setState({ models: [], why: error instanceof Refusal ? error.message : 'The gateway cannot be reached' })
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

export function TryIt() {
  const { models, why } = useModels(gatewayKey.value.trim())
  const [chosen, setChosen] = useState(placeOf(location.hash).query.get('model') ?? '')
  const [mixture, setMixture] = useState<MixtureSetting>(noMixture)
  const model = models.includes(chosen) ? chosen : (models[0] ?? '')
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
          <Choice id="model" value={model} options={models} none="none for this key yet" choose={setChosen} />
          <MixtureForm models={models} setting={mixture} change={setMixture} />
        </form>
        <Conversation apiKey={gatewayKey.value.trim()} model={model} mixture={mixtureOf(mixture, models)} />
      </div>
      <Connect apiKey={gatewayKey.value.trim()} model={model} />
    </>
  )
}
