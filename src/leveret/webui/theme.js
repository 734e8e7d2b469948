// Light or dark: as the system has it, unless somebody chose. Runs before the first paint.

const KEY = "leveret.theme";
export const THEMES = ["auto", "light", "dark"];

export function chosenTheme() {
  try {
    const kept = localStorage.getItem(KEY);
    return THEMES.includes(kept) ? kept : "auto";
  } catch {
    return "auto"; // a browser that keeps nothing
  }
}

export function chooseTheme(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // it holds until the page is left
  }
  document.documentElement.dataset.theme = theme;
}

document.documentElement.dataset.theme = chosenTheme();
