/** A program that makes known numbers of objects after each count of `heap-counts.ts`. None of them is ever dropped. */
const times = Number(process.argv[2])
const kept: unknown[] = []
/** Shorter texts of the engine's own are not made anew. */
const firstLetter = 0x4e00

function keepSome(at: number): void {
  kept.push({ at, of: 'one' }, { at, of: 'another' }, [at], () => at, new Promise(() => {}), new Map())
  kept.push(String.fromCharCode(firstLetter + at))
}

// The listener of the preload was there before, and so hears it first.
process.on('SIGUSR2', () => {
  for (let at = 1; at <= times; at++) keepSome(at)
})
setInterval(() => {}, 60_000)
process.stdout.write('ready\n')
