import { productTitle } from '../../brand.ts'
import { type ProblemCode, problemKind } from '../../errors.ts'
import type { ErrorHelp, HelpFamily } from './error-help.ts'
import { exampleOf } from './examples.ts'
import { helpAccess } from './help-access.ts'
import { helpAdministration, helpJobs, helpMoney } from './help-operations.ts'
import { helpRequests } from './help-requests.ts'
import { helpMixtures, helpServing } from './help-serving.ts'
import { menderWords, whoMends } from './help-who.ts'

/** In the order of the page. */
export const helpFamilies: readonly HelpFamily[] = [
  helpAccess,
  helpRequests,
  helpServing,
  helpMixtures,
  helpMoney,
  helpJobs,
  helpAdministration,
]

/** Of every code: the compiler finds one without. */
export const errorHelp: Readonly<Record<ProblemCode, ErrorHelp>> = {
  ...helpAccess.codes,
  ...helpRequests.codes,
  ...helpServing.codes,
  ...helpMixtures.codes,
  ...helpMoney.codes,
  ...helpJobs.codes,
  ...helpAdministration.codes,
}

const escapes: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
const escaped = (text: string) => text.replaceAll(/[&<>"']/g, (character) => escapes[character] ?? '')
/** A text of a person, with its code in backticks. */
const prose = (text: string) => escaped(text).replaceAll(/`([^`]*)`/g, '<code>$1</code>')

const codesOf = ({ codes }: HelpFamily) => Object.keys(codes) as ProblemCode[]
const anchorOf = ({ title }: HelpFamily) => `family-${title.toLowerCase().replaceAll(/[^a-z]+/g, '-')}`

/** Whether a repetition helps, in words. */
function retryWords(code: ProblemCode): string {
  return problemKind(code).shouldRetry === true
    ? 'Yes, after the time in `Retry-After` where there is one.'
    : 'No: the same request is refused again until something changes.'
}

/** Where OpenAI's envelope is spoken. */
const spokenInChat: ReadonlySet<HelpFamily> = new Set<HelpFamily>([helpRequests, helpServing, helpMixtures])

function entry(code: ProblemCode, chat: boolean): string {
  const { status, title } = problemKind(code)
  const { means, next } = errorHelp[code]
  const id = escaped(code)
  return `<article id="${id}">
<h3><a href="#${id}"><code>${id}</code></a> <span class="status">HTTP ${status}</span></h3>
<p class="title">${prose(title)}</p>
<dl>
<dt>What it means</dt><dd>${prose(means)}</dd>
<dt>Who can mend it</dt><dd>${prose(menderWords[whoMends[code]])}</dd>
<dt>What to do</dt><dd>${prose(next)}</dd>
<dt>Does a retry help?</dt><dd>${prose(retryWords(code))}</dd>
</dl>
<details><summary>An example of the answer</summary><pre><code>${escaped(exampleOf(code, chat))}</code></pre></details>
</article>`
}

const section = (family: HelpFamily) =>
  `<section aria-labelledby="${anchorOf(family)}">
<h2 id="${anchorOf(family)}">${prose(family.title)}</h2>
${codesOf(family)
  .map((code) => entry(code, spokenInChat.has(family)))
  .join('\n')}
</section>`

const contents = (family: HelpFamily) => {
  const items = codesOf(family).map((code) => `<li><a href="#${escaped(code)}">${escaped(code)}</a></li>`)
  return `<li><a class="family" href="#${anchorOf(family)}">${prose(family.title)}</a><ul>${items.join('')}</ul></li>`
}

/** `/docs/errors`: every code of `src/errors.ts`, by family. It holds nothing of any request, and needs no script. */
export const errorsPage = (): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="color-scheme" content="light dark" />
<title>Error codes – ${escaped(productTitle)}</title>
<link rel="stylesheet" href="/docs/assets/errors.css" />
<link rel="icon" type="image/png" href="/docs/assets/favicon-32x32.png" />
</head>
<body>
<header>
<h1>Error codes</h1>
<p>Each error of this gateway has a code: <code>error.code</code> in the answers of inference, <code>code</code> elsewhere. The
message says what was wrong with your request. This page says what each code means, who can mend it and how. Where a
retry helps, the SDKs of OpenAI and Anthropic repeat the request by themselves. Keep the
<code>request_id</code> of the answer for the operator. All routes: <a href="/docs/api">API documentation</a>. All documents: <a href="/docs">Documents</a>.</p>
</header>
<nav aria-label="Error codes"><ul>${helpFamilies.map(contents).join('')}</ul></nav>
<main>
${helpFamilies.map(section).join('\n')}
</main>
</body>
</html>
`
