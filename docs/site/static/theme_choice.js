// The first thing in the body, before anything is drawn: what the reader chose here, or else what the system says.
document.body.dataset.theme = localStorage.getItem("theme") || "auto";
