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
  /** How often in a row it was woken in vain. */
  readonly wakesInVain: number
  /** Unix ms until which no request wakes it again; 0: any may. */
  readonly wakePausedUntilMs: number
}

/** `14:05 UTC`. */
const clockTime = (unixMs: number) => `${new Date(unixMs).toISOString().slice(11, 16)} UTC`

/** What the name of the state leaves open, in words; null: nothing. */
export function stateWords(stated: Stated): string | null {
  const { state, stateReasons: why, wakeable, wakesInVain, wakePausedUntilMs } = stated
  if (state === 'yielding')
    return why.length === 0 ? 'its owner uses it' : why.map((name) => reasons[name] ?? name).join(', ')
  if (state !== 'asleep') return null
  if (wakeable && wakesInVain > 0) {
    const times = wakesInVain === 1 ? 'once' : `${wakesInVain} times in a row`
    return `magic packets did not wake it ${times}: check wake-on-LAN; requests send more from ${clockTime(wakePausedUntilMs)} on`
  }
  return wakeable ? 'a request wakes it' : 'nobody can wake it: its hardware address is unknown'
}
