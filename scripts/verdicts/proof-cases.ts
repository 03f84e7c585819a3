import { origin, sizes } from './bases.ts'
import { type Bases, type Case, drop, type Edit, type Fields, fileOf, rowsOf, set } from './case.ts'

const proofTextIn = (made: Bases, base: string) => String((fileOf(made, base).log as Fields).log_proof)
export const proofEdit = (made: Bases, change: (proof: string) => string): readonly Edit[] =>
  set(['log', 'log_proof'], change(proofTextIn(made, 'gateway')))

/** The lines of the proof, which stand between `index` and the first empty line. */
function withHashes(proof: string, change: (hashes: string[]) => readonly string[]): string {
  const gap = proof.indexOf('\n\n')
  const [head = '', place = '', ...hashes] = proof.slice(0, gap).split('\n')
  return [head, place, ...change(hashes)].join('\n') + proof.slice(gap)
}

export function proofCases(made: Bases): readonly Case[] {
  const change = (of: (proof: string) => string) => proofEdit(made, of)
  const hashes = (of: (all: string[]) => readonly string[]) => change((proof) => withHashes(proof, of))
  return rowsOf('gateway', [
    ['the place before', change((proof) => proof.replace('index 4', 'index 3')), false],
    ['the place after', change((proof) => proof.replace('index 4', 'index 5')), false],
    ['a place with a zero before it', change((proof) => proof.replace('index 4', 'index 04')), false],
    ['a place with a sign', change((proof) => proof.replace('index 4', 'index +4')), false],
    ['a place beyond the log', change((proof) => proof.replace('index 4', 'index 7')), false],
    ['a place beyond all logs', change((proof) => proof.replace('index 4', `index 4${'0'.repeat(16)}`)), false],
    ['a place in other digits', change((proof) => proof.replace('index 4', 'index ٤')), false],
    ['no place', change((proof) => proof.replace('index 4\n', '')), false],
    ['another kind of proof', change((proof) => proof.replace('@v1', '@v2')), false],
    ['one hash less', hashes((all) => all.slice(1)), false],
    ['no hash in the proof', hashes(() => []), false],
    ['one hash twice', hashes((all) => [...all, all[0] ?? '']), false],
    ['hashes the other way round', hashes((all) => all.toReversed()), false],
    ['another hash in the proof', hashes((all) => ['A'.repeat(43).concat('='), ...all.slice(1)]), false],
    [
      'a hash with unused bits',
      hashes(([first = '', ...all]) => [`${first.slice(0, 42)}${first[42] === '/' ? '+' : '/'}=`, ...all]),
      false,
    ],
    ['a hash without padding', hashes(([first = '', ...all]) => [first.slice(0, 43), ...all]), false],
    ['a hash in the other alphabet', hashes(([_, ...all]) => [`${'-_'.repeat(21)}A=`, ...all]), false],
    ['64 hashes', hashes(() => Array.from({ length: 64 }, () => `${'A'.repeat(43)}=`)), false],
    ['blanks behind a hash', hashes(([first = '', ...all]) => [`${first} `, ...all]), false],
    ['line ends of another system', change((proof) => proof.replaceAll('\n', '\r\n')), false],
    ['no proof', set(['log', 'log_proof'], null), false],
    ['a proof in a list', set(['log', 'log_proof'], [proofTextIn(made, 'gateway')]), false],
    ['no log', set(['log'], null), false],
    ['the proof of another receipt', set(['log', 'log_proof'], proofTextIn(made, 'bound')), false],
    ['no checkpoint', change((proof) => proof.slice(0, proof.indexOf('\n\n') + 2)), false],
  ])
}

export function memoryCases(made: Bases): readonly Case[] {
  const at = ['consistency', 0]
  return [
    ...rowsOf(
      'grown',
      [
        ['from what was seen', [], true],
        ['without the proof', drop('consistency', 0), false],
        ['with a proof in a list', set([...at, 'proof', 0], [`${'A'.repeat(43)}=`]), false],
        ['with another hash', set([...at, 'proof', 0], `${'A'.repeat(43)}=`), false],
        ['with a hash less', drop(...at, 'proof', 0), false],
        ['with a proof of other sizes', set([...at, 'from'], sizes.seen + 1), false],
        ['with a size as a text', set([...at, 'from'], `${sizes.seen}`), false],
        [
          'with the right proof behind a wrong one',
          set(['consistency'], [{ from: 1, to: 2, proof: [] }, ...(fileOf(made, 'grown').consistency as [])]),
          true,
        ],
        [
          'with the right proof behind one for the same sizes',
          set(
            ['consistency'],
            [{ from: sizes.seen, to: sizes.now, proof: [] }, ...(fileOf(made, 'grown').consistency as [])],
          ),
          false,
        ],
        ['from the same size', [], true, 'saw_now'],
        ['from another log of the same size', [], false, 'saw_split_now'],
        ['from another log', [], false, 'saw_split'],
        ['from a larger one that is another', [], false, 'saw_larger'],
        ['from a memory that holds no checkpoint', [], true, 'saw_garbage'],
      ],
      'saw_before',
    ),
    ...rowsOf(
      'forked',
      [
        ['from what is still in it', [], true],
        ['from what it says that it lost', [], true, 'saw_lost'],
        ['from what it lost and does not name', [], false, 'saw_lost_other'],
        ['from its own name, and what it lost before', [], true, 'saw_both'],
        ['from its own name', [], true, 'saw_forked'],
        ['from its own name, with the key of the one before alone', [], false, 'saw_forked_without_its_key'],
        ['without the fork’s entry', set(['forks'], []), false],
        ['without the proof of growth', set(['consistency'], []), false],
        ['with another root in the entry', set(['forks', 0, 'root'], 'ab'.repeat(32)), false],
        ['with another place of the entry', set(['forks', 0, 'size'], 6), false],
        ['with another lost checkpoint', set(['forks', 0, 'lost'], made.texts.checkpoint), false],
        ['with another name in the entry', set(['forks', 0, 'origin'], `${origin}/3`), false],
        ['with a proof less', drop('forks', 0, 'proof', 0), false],
        [
          'with the entry behind one that is none',
          set(['forks'], ['none', ...(fileOf(made, 'forked').forks as [])]),
          true,
        ],
        ['seen for the first time, with the key of its name', [], true, 'later_key'],
        ['seen for the first time, with the key of the name before', [], false, 'keys'],
      ],
      'saw_before',
    ),
    ...rowsOf('gateway', [
      ['after the log went on under another name', [], false, 'saw_forked'],
      ['after a checkpoint of another part', [], false, 'saw_before'],
    ]),
    ...rowsOf('two_logs', [
      ['as it is', [], false],
      ['one of them', drop('files', 1), true],
    ]),
    ...rowsOf('bundle', [
      ['without the root', [], false],
      ['no file', set(['files'], []), false],
      ['a bundle in it', set(['files', 1], { object: 'svc.bundle', files: [] }), false],
      ['what is no file', set(['files', 1], 7), false],
      ['the receipt alone', drop('files', 1), true],
      ['a receipt twice', set(['files', 1], (fileOf(made, 'bundle').files as unknown[])[0]), true],
    ]),
  ]
}
