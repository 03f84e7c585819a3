/** Why a node yields, by the probe of its owner. */
const reasons: Readonly<Record<string, string>> = {
  battery: 'it runs on battery',
  temperature: 'it is hot',
  hours: 'it is outside its hours',
  gpu: 'another program uses its graphics card',
  fullscreen: 'a full-screen program runs there',
}

interface Stated {
  readonly state: string
  readonly stateReasons: readonly string[]
  /** Its hardware address is known. */
  readonly wakeable: boolean
}

/** What the name of the state leaves open, in words; null: nothing. */
export function stateWords({ state, stateReasons: why, wakeable }: Stated): string | null {
  if (state === 'yielding')
    return why.length === 0 ? 'its owner uses it' : why.map((name) => reasons[name] ?? name).join(', ')
  if (state !== 'asleep') return null
  return wakeable ? 'a request wakes it' : 'nobody can wake it: its hardware address is unknown'
}
