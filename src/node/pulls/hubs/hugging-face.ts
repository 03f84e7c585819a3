import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Found, Hub, HubFile } from './hub.ts'
import { type HubFetch, hubJson, nextPage } from './hub-fetch.ts'
import { PullFault } from './pull-fault.ts'

/** `org/repo`, then a quantisation (`Q4_K_M`) or the path of a file. */
const refForm = /^([\w.-]{1,96}\/[\w.-]{1,96})(?::([\w.-]{1,64}))?(?:\/([\w./-]{1,512}\.gguf))?$/i
/** What llama.cpp calls the parts of a model that was split. */
const partForm = /-(\d{5})-of-(\d{5})\.gguf$/i

const Revision = Type.Object({ sha: Type.String({ pattern: '^[0-9a-f]{40}$' }) })
const ListedPage = Type.Array(
  Type.Object({
    type: Type.String(),
    path: Type.String({ maxLength: 1_024 }),
    size: Type.Integer({ minimum: 0 }),
    lfs: Type.Optional(
      Type.Object({ oid: Type.String({ pattern: '^[0-9a-f]{64}$' }), size: Type.Integer({ minimum: 1 }) }),
    ),
  }),
  { maxItems: 10_000 },
)
type Listed = Static<typeof ListedPage>[number]

/** Pages of a tree, which has 1,000 entries a page. */
const pagesMax = 50

/** All files of a commit. A tree without an end is refused: the model that is meant might stand behind it. */
async function tree(url: string, get: HubFetch): Promise<readonly Listed[]> {
  const all: Listed[] = []
  let next: string | null = url
  for (let page = 0; next !== null; page++) {
    if (page === pagesMax) throw new PullFault('hub_malformed')
    const answer = await get(next)
    next = nextPage(answer, next)
    const listed = await hubJson(answer)
    if (!Value.Check(ListedPage, listed)) throw new PullFault('hub_malformed')
    all.push(...listed)
  }
  return all
}

/** A file that goes with a model, and is no model itself. */
const isBeside = (path: string) => /(?:^|[-_./])(?:mmproj|imatrix)/i.test(path)

const bare = (path: string) => path.replace(partForm, '.gguf')

/** `Q4_K_M` of `qwen3-8b-Q4_K_M.gguf`, and no part of a longer one. */
const has = (path: string, quant: string) =>
  new RegExp(`(?:^|[-._/])${quant.replaceAll('.', '\\.')}(?:[-._/]|$)`, 'i').test(bare(path).replace(/\.gguf$/i, ''))

/** The parts of the one model that is meant, in order. Throws where none is, or several are. */
function meant(listed: readonly Listed[], quant: string | undefined, path: string | undefined): readonly Listed[] {
  const models = listed.filter((file) => file.type === 'file' && /\.gguf$/i.test(file.path) && !isBeside(file.path))
  const fitting = models.filter((file) =>
    path === undefined ? quant === undefined || has(file.path, quant) : bare(file.path) === bare(path),
  )
  const names = new Set(fitting.map((file) => bare(file.path)))
  if (names.size === 0) throw new PullFault('not_found')
  if (names.size > 1) throw new PullFault('ambiguous')
  const parts = fitting.toSorted((a, b) => (a.path < b.path ? -1 : 1))
  const total = Number(partForm.exec(parts[0]?.path ?? '')?.[2] ?? 1)
  if (parts.length !== total) throw new PullFault('hub_malformed')
  return parts
}

/** Hugging Face, by its published interface: the commit of the branch, its tree, then the files of that commit. */
export const huggingFace: Hub = {
  name: 'hf',
  base: 'https://huggingface.co',
  handsOverTo: ['huggingface.co', 'hf.co'],
  tokenVariable: 'HF_TOKEN',
  modelOf: (ref) => {
    const [, repo = '', quant] = refForm.exec(ref) ?? []
    const name = (repo.split('/')[1] ?? '').replace(/[-_.]gguf$/i, '').toLowerCase()
    return quant === undefined ? name : `${name}:${quant.toLowerCase()}`
  },
  async find({ ref, base, get }): Promise<Found> {
    const [whole, repo, quant, path] = refForm.exec(ref) ?? []
    if (whole === undefined) throw new PullFault('not_found')
    const revision = await hubJson(await get(`${base}/api/models/${repo}/revision/main`))
    if (!Value.Check(Revision, revision)) throw new PullFault('hub_malformed')
    const listed = await tree(`${base}/api/models/${repo}/tree/${revision.sha}?recursive=true`, get)
    const files = meant(listed, quant, path).map((file): HubFile => {
      // A file that is not kept by its hash is no model.
      if (file.lfs === undefined) throw new PullFault('hub_malformed')
      const at = file.path.split('/').map(encodeURIComponent).join('/')
      return {
        name: file.path.split('/').at(-1) ?? '',
        url: `${base}/${repo}/resolve/${revision.sha}/${at}`,
        bytes: file.lfs.size,
        sha256: file.lfs.oid,
      }
    })
    const [first, ...more] = files
    if (first === undefined) throw new PullFault('not_found')
    return { files: [first, ...more] }
  },
}
